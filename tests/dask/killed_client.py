"""A client to be killed: weighs two files with one worker and a checkpoint, then writes the weights."""

import sys

import dask
import distributed
import numpy as np

from steep.dask import sample_weights

if __name__ == "__main__":
    folder, memory = sys.argv[1:]
    dask.config.set({"steep.task-memory": memory})
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster),
    ):
        weights = sample_weights(f"{folder}/x.npy", f"{folder}/y.npy", n_neighbors=8, checkpoint=f"{folder}/checkpoint")
        np.save(f"{folder}/weights.npy", weights.compute())

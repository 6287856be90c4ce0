#!/bin/sh
# Starts mfbocd with the kernels that were compiled with the image. numba only uses a cache folder that it can write,
# and the root file system is read-only, so that they are copied to a temporary one.
set -eu
kernels=${MFBOCD_KERNELS:-/opt/kernels}
if [ -d "$kernels" ] && [ ! -e "$NUMBA_CACHE_DIR/.complete" ]; then
    mkdir -p "$NUMBA_CACHE_DIR"
    cp -a "$kernels/." "$NUMBA_CACHE_DIR/"
    touch "$NUMBA_CACHE_DIR/.complete"
fi
exec mfbocd "$@"

/* SPDX-License-Identifier: Apache-2.0
 *
 * What xfer_perf measures, in MPI: rank 0 puts into a window of rank 1, one at a time, each
 * followed by a flush, which is when the bytes are there; and 64-byte messages there and back. By
 * hand:
 *
 *   mpicc -O2 -o mpi_put tests/bench/mpi_put.c && mpirun -n 2 ./mpi_put
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROOM = 64 << 20 };

/* Seconds of one put, over blocks that are walked in turn. */
static double put(MPI_Win window, const char *local, int length, int count) {
    double start = 0;
    for (int i = -count / 10; i < count; i++) {
        if (i == 0) start = MPI_Wtime();
        const int at = (i + count) % (ROOM / length);
        MPI_Put(local + (size_t)at * length, length, MPI_BYTE, 1, (MPI_Aint)at * length, length,
                MPI_BYTE, window);
        MPI_Win_flush(1, window);
    }
    return (MPI_Wtime() - start) / count;
}

/* Seconds of half a round trip of 64 bytes. */
static double message(int rank, int count) {
    char word[64] = "";
    double start = MPI_Wtime();
    for (int i = 0; i < count; i++) {
        if (rank == 0) MPI_Send(word, sizeof word, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
        MPI_Recv(word, sizeof word, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 1) MPI_Send(word, sizeof word, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    }
    return (MPI_Wtime() - start) / count / 2;
}

int main(int argc, char **argv) {
    int rank;
    char *memory;
    MPI_Win window;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Win_allocate(ROOM, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    for (size_t i = 0; i < ROOM; i++)
        memory[i] = (char)i; /* present */
    char *local = calloc(ROOM, 1);
    for (size_t i = 0; i < ROOM; i++)
        local[i] = (char)rank;
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, window);
        printf("8 B put      %8.2f us\n", put(window, local, 8, 100000) * 1e6);
        printf("64 B put     %8.2f us\n", put(window, local, 64, 100000) * 1e6);
        printf("1 MiB put    %8.2f GB/s\n", (1 << 20) / put(window, local, 1 << 20, 1000) / 1e9);
        printf("16 MiB put   %8.2f GB/s\n", (16 << 20) / put(window, local, 16 << 20, 100) / 1e9);
        MPI_Win_unlock(1, window);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    const double half = message(rank, 100000);
    if (rank == 0) printf("64 B message %8.2f us\n", half * 1e6);
    MPI_Win_free(&window);
    MPI_Finalize();
    free(local);
    return 0;
}

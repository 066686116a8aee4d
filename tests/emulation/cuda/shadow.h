/* What is known of each byte and word of device and shared memory. */
#pragma once
#include "formulas.h"

struct Cell {  /* who last wrote and read a word, and between which barriers */
    u32 write_epoch, writer, read_epoch, reader;
};

struct Shadow {
    char *base;
    u64 size;
    uint8_t *state;
    Cell *cells;
};

Shadow &device();
Shadow &shared_memory();  /* of the block that runs */

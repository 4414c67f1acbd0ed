/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The server's memory for data: pages of 4 KiB, allocated and locked before the first request. A page holds sectors of
 * one aligned 4 KiB of the disk; a mask says which of its eight sectors it holds.
 */
#ifndef SEEKMETER_DRIVE_PAGES_H
#define SEEKMETER_DRIVE_PAGES_H

#include <stddef.h>
#include <stdint.h>

#define SECTOR_BYTES 512
#define PAGE_BYTES   4096
#define PAGE_SECTORS (PAGE_BYTES / SECTOR_BYTES)
#define WHOLE_PAGE   0xff
#define NO_PAGE	     UINT32_MAX

enum page_state {
	PAGE_FREE,
	PAGE_OF_REQUEST,
	PAGE_DIRTY,   /* in the drive's write cache */
	PAGE_AT_HEAD, /* the head is writing it */
	PAGE_LEAVING, /* on the platter for the model; the media file does not have it yet */
};

struct page {
	uint64_t number; /* of the disk's 4 KiB pages */
	uint32_t next;	 /* in a list */
	uint32_t chain;	 /* in a bucket of dirty.c's table */
	uint8_t mask;
	uint8_t state;
};

struct page_list {
	uint32_t first;
	uint32_t last;
	uint32_t count;
};

struct pages {
	char *data;
	struct page *of; /* by index */
	uint32_t count;
	struct page_list free;
};

/* 0, or -1 with errno. */
int pages_make(struct pages *pages, uint64_t bytes);

static inline void *page_data(const struct pages *pages, uint32_t index)
{
	return pages->data + (size_t)index * PAGE_BYTES;
}

void list_empty(struct page_list *list);
void list_push(struct pages *pages, struct page_list *list, uint32_t index);
uint32_t list_pop(struct pages *pages, struct page_list *list); /* NO_PAGE: empty */

uint32_t page_take(struct pages *pages); /* NO_PAGE: none is left */
void page_give(struct pages *pages, uint32_t index);

/* Takes the pages that these sectors lie in, masked to the sectors. The caller knows that there are enough. */
void pages_take_for(struct pages *pages, struct page_list *list, uint64_t sector, uint32_t sectors);
void pages_give_all(struct pages *pages, struct page_list *list);
uint32_t pages_needed(uint64_t sector, uint32_t sectors);

#endif

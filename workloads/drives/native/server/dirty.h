/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bytes that the media file does not have yet: those in the drive's write cache, those under the head, and those on
 * their way to the file. Reads lay these over what the file says. The service's lock covers everything here.
 *
 * The drive's cache holds one version of a sector: an overwrite replaces it. What the head began to write is a version
 * of its own, so an overwrite meanwhile stays in the cache.
 */
#ifndef SEEKMETER_DRIVE_DIRTY_H
#define SEEKMETER_DRIVE_DIRTY_H

#include <stdbool.h>

#include "model/drive.h"
#include "pages.h"

struct dirty {
	struct pages *pages;
	const struct drive *drive; /* its cache is the one whose bytes these are */
	uint32_t *buckets;
	uint32_t bucket_mask;
	struct page_list at_head;
	struct page_list leaving; /* oldest first */
	uint64_t left;		  /* pages that were put in `leaving`, ever */
	uint64_t cached_sectors;  /* in the write cache now */
	uint64_t
		unknown_sectors; /* that the model destaged without having got them: a fault of ours */
};

/* 0, or -1 with errno. */
int dirty_make(struct dirty *dirty, struct pages *pages, const struct drive *drive);

/* A cached write's pages go into the drive's cache. Empties the list. */
void dirty_cache(struct dirty *dirty, struct page_list *written);

/*
 * The head begins to write these cached sectors, as they are now. Those that were written while it travelled stay in
 * the cache, too: for the drive they are dirty anew.
 */
void dirty_head_takes(struct dirty *dirty, uint64_t sector, uint32_t sectors);

/* The head begins to write a request's own pages; cached versions of these sectors are obsolete. Empties the list. */
void dirty_head_takes_pages(struct dirty *dirty, struct page_list *written);

/* What is under the head is on the platter: it leaves for the media file. */
void dirty_head_done(struct dirty *dirty);

/* These cached sectors reach the platter (a power cut). Returns how many the cache had. */
uint64_t dirty_keep(struct dirty *dirty, uint64_t sector, uint32_t sectors);

/* What the cache holds is lost (a power cut). Returns the sectors. */
uint64_t dirty_lose(struct dirty *dirty);

/* A power cut in the middle of a write: the head's first `sectors` sectors from `sector` on stay, the rest is lost. */
void dirty_head_tears(struct dirty *dirty, uint64_t sector, uint32_t sectors);

/* Writes the newest version of a page's sectors over its data, where there is one. */
void dirty_lay_over(const struct dirty *dirty, struct page *page, void *data);

/* The media file has this page of `leaving` now. */
void dirty_left(struct dirty *dirty, uint32_t index);

#endif

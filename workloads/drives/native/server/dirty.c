// SPDX-License-Identifier: BSD-2-Clause
#include "dirty.h"

#include <stdlib.h>
#include <string.h>

int dirty_make(struct dirty *dirty, struct pages *pages, const struct drive *drive)
{
	uint32_t buckets = 1;

	while (buckets < pages->count)
		buckets <<= 1;
	*dirty = (struct dirty){ .pages = pages, .drive = drive, .bucket_mask = buckets - 1 };
	dirty->buckets = malloc(buckets * sizeof(*dirty->buckets));
	if (!dirty->buckets)
		return -1;
	memset(dirty->buckets, 0xff, buckets * sizeof(*dirty->buckets)); /* NO_PAGE */
	list_empty(&dirty->at_head);
	list_empty(&dirty->leaving);
	return 0;
}

static uint32_t *bucket_of(const struct dirty *dirty, uint64_t number)
{
	return &dirty->buckets[(number * 0x9e3779b97f4a7c15ULL >> 32) & dirty->bucket_mask];
}

/* Versions of one page are in their chain in the order of their making. */
static void chain_add(struct dirty *dirty, uint32_t index)
{
	struct page *page = &dirty->pages->of[index];
	uint32_t *link = bucket_of(dirty, page->number);

	while (*link != NO_PAGE)
		link = &dirty->pages->of[*link].chain;
	*link = index;
	page->chain = NO_PAGE;
}

static void chain_remove(struct dirty *dirty, uint32_t index)
{
	uint32_t *link = bucket_of(dirty, dirty->pages->of[index].number);

	while (*link != index)
		link = &dirty->pages->of[*link].chain;
	*link = dirty->pages->of[index].chain;
}

static uint32_t find_cached(const struct dirty *dirty, uint64_t number)
{
	uint32_t index = *bucket_of(dirty, number);

	while (index != NO_PAGE && (dirty->pages->of[index].number != number ||
				    dirty->pages->of[index].state != PAGE_DIRTY))
		index = dirty->pages->of[index].chain;
	return index;
}

static void copy_sectors(void *to, const void *from, uint8_t mask)
{
	if (mask == WHOLE_PAGE) {
		memcpy(to, from, PAGE_BYTES);
		return;
	}
	for (int i = 0; i < PAGE_SECTORS; i++) {
		if (mask & 1U << i)
			memcpy((char *)to + i * SECTOR_BYTES, (const char *)from + i * SECTOR_BYTES,
			       SECTOR_BYTES);
	}
}

static unsigned int sectors_in(uint8_t mask)
{
	return (unsigned int)__builtin_popcount(mask);
}

/* Takes these sectors out of a cached page. The page itself is free once it has none. */
static void uncache(struct dirty *dirty, uint32_t index, uint8_t mask)
{
	struct page *page = &dirty->pages->of[index];

	dirty->cached_sectors -= sectors_in(page->mask & mask);
	page->mask &= (uint8_t)~mask;
	if (!page->mask) {
		chain_remove(dirty, index);
		page_give(dirty->pages, index);
	}
}

void dirty_cache(struct dirty *dirty, struct page_list *written)
{
	struct pages *pages = dirty->pages;
	uint32_t index;

	while ((index = list_pop(pages, written)) != NO_PAGE) {
		struct page *page = &pages->of[index];
		uint32_t old = find_cached(dirty, page->number);

		if (old != NO_PAGE && page->mask != WHOLE_PAGE) {
			dirty->cached_sectors +=
				sectors_in(page->mask & (uint8_t)~pages->of[old].mask);
			copy_sectors(page_data(pages, old), page_data(pages, index), page->mask);
			pages->of[old].mask |= page->mask;
			page_give(pages, index);
			continue;
		}
		if (old != NO_PAGE)
			uncache(dirty, old, WHOLE_PAGE);
		page->state = PAGE_DIRTY;
		dirty->cached_sectors += sectors_in(page->mask);
		chain_add(dirty, index);
	}
}

/* The mask of the sectors from `sector` on, before `end`, that lie in the page of `sector`; moves `sector` on. */
static uint8_t next_mask(uint64_t *sector, uint64_t end)
{
	uint32_t from = (uint32_t)(*sector % PAGE_SECTORS);
	uint32_t to = end - *sector < PAGE_SECTORS - from ? from + (uint32_t)(end - *sector)
							  : PAGE_SECTORS;

	*sector += to - from;
	return (uint8_t)((1U << to) - (1U << from));
}

/* Of these sectors of a page, those that were written once more since the drive chose them for the head. */
static uint8_t written_again(const struct dirty *dirty, uint64_t number, uint8_t mask)
{
	uint64_t first = number * PAGE_SECTORS;
	uint8_t again = 0;

	if (!drive_is_dirty(dirty->drive, first, PAGE_SECTORS))
		return 0;
	for (unsigned int i = 0; i < PAGE_SECTORS; i++) {
		if (mask & 1U << i && drive_is_dirty(dirty->drive, first + i, 1))
			again |= (uint8_t)(1U << i);
	}
	return again;
}

/* The head takes a cached page as it is. */
static void take_page(struct dirty *dirty, uint32_t index)
{
	struct page *page = &dirty->pages->of[index];

	dirty->cached_sectors -= sectors_in(page->mask);
	/* To the chain's end: a part of an older version that left before may be there. */
	chain_remove(dirty, index);
	page->state = PAGE_AT_HEAD;
	chain_add(dirty, index);
	list_push(dirty->pages, &dirty->at_head, index);
}

/* The head takes a copy of these sectors of a cached page, of which some stay in the cache. False: no page is left. */
static bool take_copy(struct dirty *dirty, uint32_t index, uint8_t mask, uint8_t stays)
{
	struct pages *pages = dirty->pages;
	uint32_t copy = page_take(pages);

	if (copy == NO_PAGE)
		return false;
	pages->of[copy].number = pages->of[index].number;
	pages->of[copy].mask = mask;
	pages->of[copy].state = PAGE_AT_HEAD;
	copy_sectors(page_data(pages, copy), page_data(pages, index), mask);
	uncache(dirty, index, mask & (uint8_t)~stays);
	chain_add(dirty, copy);
	list_push(pages, &dirty->at_head, copy);
	return true;
}

static void take(struct dirty *dirty, uint64_t sector, uint32_t sectors, bool may_stay)
{
	uint64_t end = sector + sectors;

	while (sector < end) {
		uint64_t number = sector / PAGE_SECTORS;
		uint8_t mask = next_mask(&sector, end);
		uint32_t index = find_cached(dirty, number);
		uint8_t has = index == NO_PAGE ? 0 : dirty->pages->of[index].mask & mask;
		uint8_t stays;

		dirty->unknown_sectors += sectors_in(mask & (uint8_t)~has);
		if (!has)
			continue;
		stays = may_stay ? written_again(dirty, number, has) : 0;
		/* Without a page for the copy, the head takes all that the cache has of this one. */
		if ((has == dirty->pages->of[index].mask && !stays) ||
		    !take_copy(dirty, index, has, stays))
			take_page(dirty, index);
	}
}

void dirty_head_takes(struct dirty *dirty, uint64_t sector, uint32_t sectors)
{
	take(dirty, sector, sectors, true);
}

uint64_t dirty_keep(struct dirty *dirty, uint64_t sector, uint32_t sectors)
{
	uint64_t unknown = dirty->unknown_sectors;
	uint64_t cached = dirty->cached_sectors;

	take(dirty, sector, sectors, false);
	dirty_head_done(dirty);
	/* The drive lists what was under the head, too. */
	dirty->unknown_sectors = unknown;
	return cached - dirty->cached_sectors;
}

void dirty_head_takes_pages(struct dirty *dirty, struct page_list *written)
{
	struct pages *pages = dirty->pages;
	uint32_t index;

	while ((index = list_pop(pages, written)) != NO_PAGE) {
		uint8_t mask = pages->of[index].mask;
		uint32_t old = find_cached(dirty, pages->of[index].number);

		if (old != NO_PAGE)
			uncache(dirty, old,
				mask & (uint8_t)~written_again(dirty, pages->of[index].number,
							       mask));
		pages->of[index].state = PAGE_AT_HEAD;
		chain_add(dirty, index);
		list_push(pages, &dirty->at_head, index);
	}
}

void dirty_head_done(struct dirty *dirty)
{
	uint32_t index;

	while ((index = list_pop(dirty->pages, &dirty->at_head)) != NO_PAGE) {
		dirty->pages->of[index].state = PAGE_LEAVING;
		list_push(dirty->pages, &dirty->leaving, index);
		dirty->left++;
	}
}

uint64_t dirty_lose(struct dirty *dirty)
{
	uint64_t lost = dirty->cached_sectors;

	for (uint32_t i = 0; i < dirty->pages->count && dirty->cached_sectors; i++) {
		if (dirty->pages->of[i].state == PAGE_DIRTY)
			uncache(dirty, i, WHOLE_PAGE);
	}
	return lost;
}

void dirty_head_tears(struct dirty *dirty, uint64_t sector, uint32_t sectors)
{
	struct page_list head = dirty->at_head;
	uint64_t end = sector + sectors;
	uint32_t index;

	list_empty(&dirty->at_head);
	while ((index = list_pop(dirty->pages, &head)) != NO_PAGE) {
		struct page *page = &dirty->pages->of[index];
		uint64_t first = page->number * PAGE_SECTORS;

		for (int i = 0; i < PAGE_SECTORS; i++) {
			if (first + i < sector || first + i >= end)
				page->mask &= (uint8_t) ~(1U << i);
		}
		if (page->mask) {
			list_push(dirty->pages, &dirty->at_head, index);
		} else {
			chain_remove(dirty, index);
			page_give(dirty->pages, index);
		}
	}
	dirty_head_done(dirty);
}

void dirty_lay_over(const struct dirty *dirty, struct page *page, void *data)
{
	const struct pages *pages = dirty->pages;
	uint32_t cached = NO_PAGE;

	for (uint32_t i = *bucket_of(dirty, page->number); i != NO_PAGE; i = pages->of[i].chain) {
		if (pages->of[i].number != page->number)
			continue;
		if (pages->of[i].state == PAGE_DIRTY)
			cached = i;
		else
			copy_sectors(data, page_data(pages, i), pages->of[i].mask);
	}
	/* A page of which the head took a part may be older in the chain, but its sectors are the newest. */
	if (cached != NO_PAGE)
		copy_sectors(data, page_data(pages, cached), pages->of[cached].mask);
}

void dirty_left(struct dirty *dirty, uint32_t index)
{
	chain_remove(dirty, index);
	page_give(dirty->pages, index);
}

// SPDX-License-Identifier: BSD-2-Clause
#include "pages.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

int pages_make(struct pages *pages, uint64_t bytes)
{
	uint64_t count = bytes / PAGE_BYTES;

	if (count >= NO_PAGE) {
		errno = EINVAL;
		return -1;
	}
	pages->data = mmap(NULL, count * PAGE_BYTES, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (pages->data == MAP_FAILED)
		return -1;
	pages->of = calloc(count, sizeof(*pages->of));
	if (!pages->of)
		return -1;
	pages->count = (uint32_t)count;
	list_empty(&pages->free);
	for (uint32_t i = 0; i < pages->count; i++)
		list_push(pages, &pages->free, i);
	return 0;
}

void list_empty(struct page_list *list)
{
	*list = (struct page_list){ .first = NO_PAGE, .last = NO_PAGE };
}

void list_push(struct pages *pages, struct page_list *list, uint32_t index)
{
	pages->of[index].next = NO_PAGE;
	if (list->last == NO_PAGE)
		list->first = index;
	else
		pages->of[list->last].next = index;
	list->last = index;
	list->count++;
}

uint32_t list_pop(struct pages *pages, struct page_list *list)
{
	uint32_t index = list->first;

	if (index == NO_PAGE)
		return NO_PAGE;
	list->first = pages->of[index].next;
	if (list->first == NO_PAGE)
		list->last = NO_PAGE;
	list->count--;
	return index;
}

uint32_t page_take(struct pages *pages)
{
	return list_pop(pages, &pages->free);
}

void page_give(struct pages *pages, uint32_t index)
{
	pages->of[index].state = PAGE_FREE;
	list_push(pages, &pages->free, index);
}

uint32_t pages_needed(uint64_t sector, uint32_t sectors)
{
	if (!sectors)
		return 0;
	return (uint32_t)((sector + sectors - 1) / PAGE_SECTORS - sector / PAGE_SECTORS + 1);
}

void pages_take_for(struct pages *pages, struct page_list *list, uint64_t sector, uint32_t sectors)
{
	uint64_t end = sector + sectors;

	list_empty(list);
	while (sector < end) {
		uint32_t index = page_take(pages);
		struct page *page = &pages->of[index];
		uint32_t from = (uint32_t)(sector % PAGE_SECTORS);
		uint32_t to = end - sector < PAGE_SECTORS - from ? from + (uint32_t)(end - sector)
								 : PAGE_SECTORS;

		page->number = sector / PAGE_SECTORS;
		page->mask = (uint8_t)((1U << to) - (1U << from));
		page->state = PAGE_OF_REQUEST;
		list_push(pages, list, index);
		sector += to - from;
	}
}

void pages_give_all(struct pages *pages, struct page_list *list)
{
	uint32_t index;

	while ((index = list_pop(pages, list)) != NO_PAGE)
		page_give(pages, index);
}

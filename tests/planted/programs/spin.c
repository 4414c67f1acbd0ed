// SPDX-License-Identifier: BSD-2-Clause
// Use a CPU until killed: the hog.

int main(void)
{
	for (volatile unsigned long i = 0;; i++)
		;
}

/* SPDX-License-Identifier: MIT
 * For processes that handle secrets.
 */
#ifndef BASE_PRIVATE_H
#define BASE_PRIVATE_H

/* From now on this process leaves no core dump, and processes of the same user cannot read its
 * memory. Best effort. */
void private_process(void);

/* Overwrites the stack below the caller's frame, where returned functions may have left secrets. */
void private_clean_stack(void);

#endif

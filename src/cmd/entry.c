#include "cmd/entry.h"

#include <string.h>

#include "base/private.h"

enum { ROOM = 2 * TERMINAL_LINE }; /* for the key, and for the key again */

static bool read_again(struct entry *e, struct err *err)
{
    char *again = e->key + TERMINAL_LINE;
    size_t len = 0;
    if (!terminal_ask(&e->terminal, "Once more: ", again, &len, err))
        return false;
    return (len == e->len && memcmp(again, e->key, len) == 0) ||
           fail(err, "the key was entered in two different ways");
}

bool entry_read(struct entry *e, bool twice, struct err *err)
{
    *e = (struct entry){0};
    if (!terminal_open(&e->terminal, err))
        return false;
    e->key = private_alloc(ROOM);
    if (e->key == NULL)
        return fail(err, "out of memory");
    return terminal_ask(&e->terminal, "Key (not shown): ", e->key, &e->len, err) &&
           (!twice || read_again(e, err));
}

void entry_forget(struct entry *e)
{
    private_free(e->key, ROOM);
    e->key = NULL;
    e->len = 0;
    private_clean_stack();
}

void entry_answer(struct entry *e, bool is_known)
{
    terminal_say(&e->terminal, is_known ? "known: choose another\n" : "not known\n");
}

void entry_close(struct entry *e)
{
    entry_forget(e);
    terminal_close(&e->terminal);
}

#include "cmd/entry.h"

#include "base/private.h"

bool entry_read(struct entry *e, struct err *err)
{
    *e = (struct entry){0};
    if (!terminal_open(&e->terminal, err))
        return false;
    e->key = private_alloc(TERMINAL_LINE);
    if (e->key == NULL)
        return fail(err, "out of memory");
    return terminal_ask(&e->terminal, "Key (not shown): ", e->key, &e->len, err);
}

void entry_forget(struct entry *e)
{
    private_free(e->key, TERMINAL_LINE);
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

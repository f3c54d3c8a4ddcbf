#include "cmd/warn.h"

#include "base/say.h"

static void unclean(const char *name, bool slot_damaged, bool is_dirty)
{
    if (slot_damaged)
        say_warning("'%s': one of its two headers is damaged; 'seen verify' says more", name);
    if (is_dirty)
        say_warning("'%s': a process died while it added keys; the last of them may be missing, "
                    "and 'seen verify --repair' makes the file clean",
                    name);
}

void warn_unclean(const struct store *s)
{
    struct facts facts;
    store_describe(s, &facts);
    unclean(s->name, facts.slot_damaged, facts.is_dirty);
}

void warn_unclean_file(const struct filter *f)
{
    unclean(f->path, f->slot_damaged, filter_health(f) == FILTER_DIRTY);
}

bool warn_inputs(const struct make *m, bool ok)
{
    for (unsigned i = 0; i < m->n_in; i++)
        warn_unclean_file(&m->in[i]);
    return ok;
}

/* SPDX-License-Identifier: MIT */
#include "cmd/warn.h"

#include "base/num.h"
#include "base/say.h"
#include "file/chain.h"
#include "file/filter.h"
#include "file/session.h"

static void slot_damaged(const char *name)
{
    say_warning("'%s': one of its two headers is damaged; 'seen verify' says more", name);
}

static void dirty(const char *name)
{
    say_warning("'%s': the machine crashed or a sync failed while keys were added; the last of "
                "them may be missing, and no keys can be added before 'seen verify --repair'",
                name);
}

void warn_clock(enum advance_clock clock, const char *name)
{
    if (clock != CLOCK_BELIEVED)
        say_warning("'%s': by the clock, its newest generation is from the future or ended over a "
                    "year ago; %s",
                    name,
                    clock == CLOCK_DATED
                        ? "it is taken to begin now, and nothing is forgotten"
                        : "nothing is forgotten ('seen rotate --now' goes by the clock)");
}

/* A new filter without times (--reproducible) has its first generation begin later. */
static void doubt(const struct header *h, const char *name)
{
    if (chain_doubts(h, format_now()) && h->layers[chain_newest(h)].since != 0)
        warn_clock(CLOCK_DOUBTED, name);
}

void warn_slot(const struct store *s)
{
    if (s->file != NULL && s->file->slot_damaged)
        slot_damaged(s->name);
}

void warn_unclean(const struct store *s)
{
    warn_slot(s);
    doubt(s->header, s->name);
    if (s->header->state == STATE_DIRTY || (s->file != NULL && session_is_dirty(s->file)))
        dirty(s->name);
}

void warn_disagreement(const char *name, double n_bits, double n_counted)
{
    char bits[NUM_TEXT], counted[NUM_TEXT];
    say_warning("'%s': its bits hold %s keys, but %s were counted: keys were chosen by their "
                "hashes or hashed in another way, a repair set bits, or bits changed before their "
                "checksums were made",
                name, num_show_count(bits, n_bits), num_show_count(counted, n_counted));
}

void warn_attached(const struct newfile *file, const char *path)
{
    if (file->attached)
        say_warning("'%s' was replaced while other processes were adding keys; they stop, and say "
                    "that they must be run again",
                    path);
}

void warn_useless(const struct store *s)
{
    struct facts facts;
    char now[NUM_TEXT], design[NUM_TEXT];
    const struct header *h = s->header;
    store_describe(s, &facts);
    double fpr = chain_counted_fpr(h, &facts.counters), reached = layers_design_fpr(h);
    if ((h->compat & COMPAT_ASSUMED) != 0 || fpr < WRITER_USELESS * h->fpr_design)
        return;
    num_show_fpr(now, fpr);
    if (format_grows(h)) {
        char text[WRITER_WARNING];
        writer_warn(h, s->name, fpr, text);
        say_warning("%s", text);
    } else if (fpr >= WRITER_USELESS * reached)
        say_warning(
            "'%s' has far more keys than it was made for: its false-positive rate is %s, its "
            "design rate %s; %s",
            s->name, now, num_show_fpr(design, layers_shown_fpr(h)), writer_remedy(h));
    else
        say_warning("'%s' has a false-positive rate of %s: its layout does not reach the %s that "
                    "was asked for",
                    s->name, now, num_show_fpr(design, h->fpr_design));
}

void warn_unreached(const struct header *h, const char *name)
{
    char n[NUM_TEXT], reached[NUM_TEXT], asked[NUM_TEXT];
    double fpr = layers_shown_fpr(h);
    if ((h->compat & COMPAT_ASSUMED) == 0 && fpr != h->fpr_design)
        say_warning("'%s' has a false-positive rate of %s at its capacity of %s: its layout does "
                    "not reach the %s that was asked for",
                    name, num_show_fpr(reached, fpr),
                    num_show_count(n, (double)h->layers[0].n_design),
                    num_show_fpr(asked, h->fpr_design));
}

bool warn_inputs(const struct assembly *m, bool ok)
{
    for (unsigned i = 0; i < m->n_in; i++) {
        if (m->in[i].slot_damaged)
            slot_damaged(m->in[i].path);
        doubt(&m->in[i].header, m->in[i].path);
        if (m->in[i].header.state == STATE_DIRTY)
            dirty(m->in[i].path);
    }
    return ok;
}

void warn_taken(const char *path, const char *spec)
{
    say_note("'%s' is taken for %s", path, spec);
}

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/output.h"
#include "base/say.h"
#include "cmd/cmd.h"
#include "cmd/combining.h"
#include "cmd/inputs.h"
#include "cmd/summary.h"
#include "store/chain.h"
#include "store/filter.h"
#include "store/header.h"
#include "store/newfile.h"

/* A layer of the output, in which one or more input layers are united. */
struct joint {
    struct layer layer;
    struct census census;
    unsigned n;
    /* The sums over those sources that are among the first `counted` of all. */
    size_t counted;
    double keys, fpr;
};

/* A layer of an input. */
struct source {
    const struct layer *layer;
    const uint8_t *data;
    unsigned joint; /* the output layer that it goes into */
};

struct merge {
    bool intersect, max, distinct, subtract, except;
    struct result_options result;
    struct inputs in;
    struct source *sources;
    size_t n_sources;
    struct joint joint[FORMAT_MAX_LAYERS];
    unsigned n_joints;
    struct header header;
    struct newfile file;
    double fpr, n;
};

static const struct opt merge_opts[] = {
    {0, "intersect", NULL, "keep only keys that are in every FILTER",
     FLAG(struct merge, intersect)},
    {0, "max", NULL, "of counted sets, give a key its largest count (default: the sum)",
     FLAG(struct merge, max)},
    {0, "distinct", NULL, "of counted sets, give every key the count 1",
     FLAG(struct merge, distinct)},
    {0, "subtract", NULL,
     "of counted sets, keep what the first holds more often than all others together",
     FLAG(struct merge, subtract)},
    {0, "except", NULL, "of counted sets, keep the keys of the first that no other has",
     FLAG(struct merge, except)},
    {0},
};

static const struct opt_group groups[] = {
    {"Keys", merge_opts, 0, NULL},
    {"The file that is made", result_opts, offsetof(struct merge, result), NULL},
    {0}};

static void add_source(struct merge *m, const struct filter *f, const struct layer *layer,
                       unsigned joint)
{
    m->sources[m->n_sources++] = (struct source){layer, f->map + layer->data_off, joint};
    m->joint[joint].n++;
}

/* A rate of up to 1 % above the limit is the random spread of bits, not more keys. */
static const double FPR_SLACK = 1.01;

static double keys_in(const struct merge *m, const struct layer *layer, const uint8_t *data)
{
    struct census census = {0};
    layer->kind->census(layer, data, m->result.threads, &census);
    return census.n;
}

/* Sums up the sources that have come since the last call, so that each is read once. */
static void count_sources(struct merge *m, unsigned joint)
{
    struct joint *j = &m->joint[joint];
    for (; j->counted < m->n_sources; j->counted++) {
        const struct source *s = &m->sources[j->counted];
        if (s->joint != joint)
            continue;
        j->keys += keys_in(m, s->layer, s->data);
        j->fpr += s->layer->fpr_design;
    }
}

/* Should a layer and a joint be united in `united`? If `united` is smaller than one of them, that
 * one was folded, and `united` must have room for the keys of both. Otherwise they should stay
 * separate layers. *keys: those in the layer; NAN: not yet counted. */
static bool has_room(struct merge *m, unsigned joint, const struct layer *layer,
                     const uint8_t *data, const struct layer *united, double *keys)
{
    const struct joint *j = &m->joint[joint];
    if (united->kind->fold == NULL ||
        (united->data_len == layer->data_len && united->data_len == j->layer.data_len))
        return true;
    if (isnan(*keys))
        *keys = keys_in(m, layer, data);
    count_sources(m, joint);
    return united->kind->fpr_at(united, *keys + j->keys) <=
           FPR_SLACK * (layer->fpr_design + j->fpr);
}

/* Unites an input layer with a joint that it fits, or makes it a new joint. */
static bool place_layer(struct merge *m, const struct filter *f, const struct layer *layer)
{
    double keys = NAN;
    for (unsigned i = 0; i < m->n_joints; i++) {
        struct joint *j = &m->joint[i];
        struct layer united;
        if (j->layer.kind != layer->kind || layer->kind->unite == NULL ||
            !layer->kind->unite(&j->layer, layer, &united) ||
            !has_room(m, i, layer, f->map + layer->data_off, &united, &keys))
            continue;
        j->layer = united;
        add_source(m, f, layer, i);
        return true;
    }
    if (m->n_joints == FORMAT_MAX_LAYERS) {
        say_error(
            "the filters are of more than %d different sizes, too many for one file; make them "
            "with --like one of them",
            FORMAT_MAX_LAYERS);
        return false;
    }
    m->joint[m->n_joints].layer = *layer;
    add_source(m, f, layer, m->n_joints++);
    return true;
}

/* Keys are added to the last layer, so layers that take no keys come first. */
static void sort_joints(struct merge *m)
{
    struct joint sorted[FORMAT_MAX_LAYERS];
    unsigned place[FORMAT_MAX_LAYERS] = {0}, n = 0;
    for (int changes = 0; changes < 2; changes++)
        for (unsigned i = 0; i < m->n_joints; i++)
            if (layer_takes_keys(&m->joint[i].layer) == (changes != 0)) {
                place[i] = n;
                sorted[n++] = m->joint[i];
            }
    memcpy(m->joint, sorted, n * sizeof *sorted);
    for (size_t s = 0; s < m->n_sources; s++)
        m->sources[s].joint = place[m->sources[s].joint];
}

static bool place_layers(struct merge *m)
{
    m->sources = calloc((size_t)m->in.n * FORMAT_MAX_LAYERS + 1, sizeof *m->sources);
    if (m->sources == NULL) {
        say_error("out of memory");
        return false;
    }
    for (unsigned i = 0; i < m->in.n; i++)
        for (unsigned l = 0; l < m->in.filter[i].header.n_layers; l++)
            if (!m->in.filter[i].header.layers[l].is_void &&
                !place_layer(m, &m->in.filter[i], &m->in.filter[i].header.layers[l]))
                return false;
    if (!m->intersect) {
        sort_joints(m);
        return true;
    }
    bool one_size = m->n_joints == 1 && m->joint[0].n == m->in.n;
    for (unsigned i = 0; one_size && i < m->in.n; i++)
        one_size = m->in.filter[i].header.n_layers == 1 && m->joint[0].layer.kind->unite != NULL &&
                   (m->joint[0].layer.kind->fold == NULL ||
                    m->in.filter[i].header.layers[0].data_len == m->joint[0].layer.data_len);
    if (!one_size)
        say_error("only Bloom filters of the same size and number of probes, of one layer each, "
                  "can be intersected; make them with --like one of them");
    return one_size;
}

static void fill_header(struct merge *m)
{
    struct header *h = &m->header;
    double absent = 1;
    header_begin_like(h, &m->in.filter[0].header, m->result.reproducible);
    for (unsigned i = 1; i < m->in.n; i++)
        header_join_keys(h, &m->in.filter[i].header);
    h->n_layers = m->n_joints;
    for (unsigned i = 0; i < m->n_joints; i++) {
        /* The result neither grows nor forgets. */
        const struct layer *from = &m->joint[i].layer;
        h->layers[i] = (struct layer){.kind = from->kind,
                                      .id = i + 1,
                                      .n_design = from->n_design,
                                      .fpr_design = from->fpr_design,
                                      .data_len = from->data_len};
        memcpy(h->layers[i].geometry, from->geometry, sizeof from->geometry);
        h->n_design += h->layers[i].n_design;
        absent *= 1 - h->layers[i].fpr_design;
    }
    h->fpr_design = m->n_joints == 1 ? h->layers[0].fpr_design : format_rate(1 - absent);
    format_place(h);
}

static bool write_joint(struct merge *m, unsigned i, const struct layer **layer,
                        const uint8_t **data, struct err *err)
{
    struct target target =
        header_target(&m->header, i, m->file.fd, m->result.out, m->result.threads);
    struct union_of parts = {.layer = layer, .data = data, .intersect = m->intersect};
    for (size_t s = 0; s < m->n_sources; s++)
        if (m->sources[s].joint == i) {
            layer[parts.n] = m->sources[s].layer;
            data[parts.n++] = m->sources[s].data;
        }
    const struct layer *united = &m->header.layers[i];
    if (united->kind->write_union != NULL)
        return united->kind->write_union(&target, &parts, &m->joint[i].census, err);
    if (!target_copy(&target, data[0], err))
        return false;
    united->kind->census(united, data[0], m->result.threads, &m->joint[i].census);
    return true;
}

static bool write_layers(struct merge *m, struct err *err)
{
    const struct layer **layer = calloc(m->n_sources, sizeof *layer);
    const uint8_t **data = calloc(m->n_sources, sizeof *data);
    bool ok = layer != NULL && data != NULL;
    if (!ok)
        fail(err, "out of memory");
    for (unsigned i = 0; ok && i < m->n_joints; i++)
        ok = write_joint(m, i, layer, data, err);
    free(layer);
    free(data);
    return ok;
}

/* The counter from which layouts of other programs go on counting (struct counters). For a union it
 * is the sum, as in those programs. It is estimated from the bits for an intersection, and where
 * the counter decides when a layer is full. */
static uint64_t keys_added(const struct merge *m)
{
    uint64_t sum = 0;
    if (m->header.layers[0].kind->layout == NULL)
        return 0;
    for (unsigned i = 0; i < m->in.n; i++)
        sum += m->in.filter[i].header.counters.keys_added;
    return m->intersect || chain_is_exact(&m->header) ? (uint64_t)round(m->n) : sum;
}

/* Inputs may share an unknown number of keys, so a union's keys are estimated from the bits. */
static void fill_counters(struct merge *m)
{
    double absent = 1;
    m->n = 0;
    for (unsigned i = 0; i < m->n_joints; i++) {
        absent *= 1 - m->joint[i].census.fpr;
        m->n += m->joint[i].census.n;
    }
    m->fpr = 1 - absent;
    m->header.counters =
        (struct counters){.unknown = true, .keys_added = keys_added(m), .n_keys = m->n};
}

static bool rate_is_acceptable(const struct merge *m)
{
    char now[NUM_TEXT], text[NUM_TEXT];
    double limit = 0;
    for (unsigned i = 0; i < m->in.n; i++)
        limit += m->in.filter[i].header.fpr_design;
    limit *= FPR_SLACK;
    if (m->result.max_fpr > 0)
        limit = m->result.max_fpr;
    if (m->fpr <= limit || (m->result.force && m->result.max_fpr == 0))
        return true;
    say_error("the result would have a current false-positive rate of %s, above %s; --max-fpr or "
              "--force accept it",
              num_show_fpr(now, m->fpr), num_show_fpr(text, limit));
    return false;
}

static const char *why_layers(const struct merge *m)
{
    if (m->n_joints == 1)
        return "";
    if (m->joint[0].layer.kind->unite == NULL)
        return "s, since layers of their kind are joined as they are";
    return "s, since the filters' sizes do not fit each other (--like makes them fit)";
}

static void report(const struct merge *m)
{
    char text[NUM_TEXT], n[NUM_TEXT];
    if (m->result.verbose)
        say_note("'%s': current false-positive rate %s, about %s keys, %u layer%s", m->result.out,
                 num_show_fpr(text, m->fpr), num_show_count(n, m->n), m->n_joints, why_layers(m));
    if (!m->result.json)
        return;
    struct json j = {.out = stdout};
    summary_begin(&j, m->result.out, &m->header, m->fpr, m->n);
    summary_end(&j);
}

static bool write_file(struct merge *m)
{
    struct err err;
    bool ok = header_reserve(&m->header, &m->file, &err) && write_layers(m, &err);
    if (ok) {
        fill_counters(m);
        if (!rate_is_acceptable(m))
            return false;
        ok = header_write(&m->header, m->file.fd, m->result.out, &err) &&
             inputs_check_intact(&m->in, &err) && newfile_commit(&m->file, &err);
    }
    if (!ok)
        say_failure(&err);
    return ok;
}

static bool merge_layers(struct merge *m)
{
    if (!place_layers(m))
        return false;
    fill_header(m);
    if (!write_file(m))
        return false;
    report(m);
    return true;
}

static bool merge_counted(struct merge *m)
{
    struct combining c = {.op = m->intersect  ? COUNTS_INTERSECT
                                : m->max      ? COUNTS_MAX
                                : m->distinct ? COUNTS_DISTINCT
                                : m->subtract ? COUNTS_SUBTRACT
                                : m->except   ? COUNTS_EXCEPT
                                              : COUNTS_ADD,
                          .in = &m->in,
                          .file = &m->file,
                          .result = &m->result};
    return combining_run(&c);
}

static bool takes_away(const struct merge *m)
{
    return m->subtract || m->except;
}

/* Keys are taken only from counted sets, and only by counted sets. */
static bool refuse_taking(const struct merge *m)
{
    unsigned i = 0;
    while (combine_counts(&m->in.filter[i].header))
        i++;
    say_error("'%s' is of kind %s, from which no keys can be taken; make it anew from its keys, or "
              "keep them in a counted set: 'seen create --counted'",
              m->in.filter[i].path, format_kind_name(&m->in.filter[i].header));
    return false;
}

static bool merge_inputs(struct merge *m)
{
    if (combining_all(&m->in))
        return merge_counted(m);
    if (takes_away(m))
        return refuse_taking(m);
    if (combining_any(&m->in)) {
        say_error("counted sets cannot be merged with filters of other kinds, which have no "
                  "counts; 'seen create --from' makes such a filter from a counted set");
        return false;
    }
    if (m->max || m->distinct) {
        say_error("%s is for counted sets; '%s' is of kind %s, which has no counts",
                  m->max ? "--max" : "--distinct", m->in.filter[0].path,
                  format_kind_name(&m->in.filter[0].header));
        return false;
    }
    return merge_layers(m);
}

static int merge(struct merge *m, char **paths, unsigned n)
{
    struct err err;
    const struct result_options *o = &m->result;
    if (!newfile_open(&m->file, o->out, o->force, &err)) {
        say_failure(&err);
        return EXIT_ERROR;
    }
    bool ok = !o->json || output_is_apart(m->file.old_fd, o->out, &err) || say_failure(&err);
    ok = ok &&
         inputs_open(&m->in, paths, n, &m->file, o->threads,
                     takes_away(m) ? "subtracted" : "merged") &&
         merge_inputs(m);
    newfile_close(&m->file);
    return ok ? EXIT_SELECTED : EXIT_ERROR;
}

static int run(int argc, char **argv)
{
    struct merge m = {.result = RESULT_DEFAULT};
    struct opt_parser p;
    if (!opt_parse(&p, &cmd_merge, argc, argv, &m))
        return p.status;
    if (m.intersect + m.max + m.distinct + m.subtract + m.except > 1)
        return opt_misuse(&cmd_merge,
                          "--intersect, --max, --distinct, --subtract and --except: give "
                          "one of them");
    if (takes_away(&m) && argc - p.first < 2)
        return opt_misuse(&cmd_merge, "nothing to take away: two filters are needed");
    int status = merge(&m, argv + p.first, (unsigned)(argc - p.first));
    inputs_close(&m.in);
    free(m.sources);
    return status;
}

const struct command cmd_merge = {
    .name = "merge",
    .synopsis = "[OPTION]... -o OUT FILTER...",
    .summary = "make the union, intersection or difference of filters",
    .details =
        "Makes OUT, which has every key of every FILTER. Filters whose sizes fit each other (the "
        "same number of probes, and one a multiple of the other) become one, exactly; others "
        "become layers of one file. Of counted sets, the counts are added. The filters are only "
        "read.",
    .groups = groups,
    .operand = "FILTER",
    .least = 1,
    .output = "OUT",
    .run = run,
};

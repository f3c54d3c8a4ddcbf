#include "cmd/plan_layouts.h"

#include <inttypes.h>
#include <math.h>

#include "base/num.h"
#include "store/foreign.h"

struct row {
    const struct kind *kind;
    bool ok;
    struct err why; /* unless ok: why it cannot be made */
    uint64_t n;     /* distinct keys */
    uint64_t bits;  /* m */
    unsigned k;
    uint64_t len;      /* bytes of the other program's files */
    uint64_t file_len; /* of our file */
    double fpr;        /* with n keys, by the other program's formula */
};

static void make_row(const struct plan_layouts *plan, const struct layout_spec *spec,
                     struct row *row)
{
    struct layout_filter filter;
    struct layout_spec own = *spec;
    struct header h = {0};
    own.n = plan->n;
    own.p = plan->p;
    *row = (struct row){.kind = spec->kind};
    row->ok = spec->kind->layout->design(&own, plan->n, plan->p, &filter, &row->why);
    if (!row->ok)
        return;
    foreign_layers(&filter, &h);
    const struct layer *layer = &filter.layer[0];
    const struct shape shape = layer->kind->shape(layer);
    row->n = plan->n != 0 ? plan->n : layer->n_design;
    row->bits = shape.m != 0 ? shape.m : 8 * layer->data_len;
    row->k = shape.k;
    row->len = spec->kind->layout->file_len(&filter);
    row->file_len = h.file_len;
    row->fpr = layer->kind->fpr_at(layer, (double)row->n);
}

/* Row number i; false after the last. */
static bool row_number(const struct plan_layouts *plan, unsigned i, struct row *row)
{
    struct layout_spec spec = {.kind = layout_number_of(i)};
    if (plan->spec != NULL ? i > 0 : spec.kind == NULL)
        return false;
    make_row(plan, plan->spec != NULL ? plan->spec : &spec, row);
    return true;
}

bool plan_layouts_check(const struct plan_layouts *plan, struct err *err)
{
    struct row row;
    if (plan->spec == NULL || !row_number(plan, 0, &row) || row.ok)
        return true;
    *err = row.why;
    return false;
}

static double bits_per_key(const struct row *row)
{
    return 8 * (double)row->len / (double)row->n;
}

static void print_row(const struct row *row, FILE *out)
{
    char len[NUM_TEXT], file_len[NUM_TEXT], fpr[NUM_TEXT];
    if (!row->ok) {
        fprintf(out, "%-10s %s\n", row->kind->name, row->why.text);
        return;
    }
    fprintf(out, "%-10s %15" PRIu64 "  %4u  %10s  %10s  %8.2f  %s\n", row->kind->name, row->bits,
            row->k, num_show_bytes(len, row->len), num_show_bytes(file_len, row->file_len),
            bits_per_key(row), num_show_fpr(fpr, row->fpr));
}

void plan_layouts_print(const struct plan_layouts *plan, FILE *out)
{
    struct row row;
    fprintf(out, "%-10s %15s  %4s  %10s  %10s  %8s  %s\n", "layout", "m", "k", "its file",
            "seen file", "bits/key", "real FPR");
    for (unsigned i = 0; row_number(plan, i, &row); i++)
        print_row(&row, out);
    fprintf(out,
            "\nThe real FPR is that of the formula for %s. Bits a key are those of the other "
            "program's file.\n",
            plan->n != 0 ? "the capacity" : "a half-full filter");
}

static void json_row(struct json *j, const struct row *row)
{
    json_open(j, '{');
    json_key(j, "layout");
    json_string(j, row->kind->name);
    if (!row->ok) {
        json_key(j, "refused");
        json_string(j, row->why.text);
        json_close(j, '}');
        return;
    }
    json_key(j, "n_design");
    json_uint(j, row->n);
    json_key(j, "m");
    json_uint(j, row->bits);
    json_key(j, "k");
    json_uint(j, row->k);
    json_key(j, "layout_bytes");
    json_uint(j, row->len);
    json_key(j, "bytes");
    json_uint(j, row->file_len);
    json_key(j, "bits_per_key");
    json_double(j, bits_per_key(row));
    json_key(j, "fpr");
    json_double(j, row->fpr);
    json_close(j, '}');
}

void plan_layouts_json(const struct plan_layouts *plan, struct json *j)
{
    struct row row;
    json_open(j, '[');
    for (unsigned i = 0; row_number(plan, i, &row); i++)
        json_row(j, &row);
    json_close(j, ']');
}

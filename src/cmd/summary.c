#include "cmd/summary.h"

#include <math.h>

#include "base/say.h"
#include "kind/layout.h"

void summary_begin(struct json *j, const char *path, const struct header *h, double fpr, double n)
{
    double capacity = (double)h->n_design;
    say_made(path);
    json_open(j, '{');
    json_key(j, "file");
    json_string(j, path);
    json_key(j, "kind");
    json_string(j, format_kind_name(h));
    json_key(j, "bytes");
    json_uint(j, h->file_len);
    json_key(j, "bits_per_key");
    json_double(j, h->n_design != 0 ? 8 * (double)h->file_len / capacity : NAN);
    json_key(j, "layers");
    json_uint(j, h->n_layers);
    json_key(j, "n_design");
    if (h->n_design != 0)
        json_uint(j, h->n_design);
    else
        json_null(j);
    json_key(j, "fpr_design");
    json_double(j, h->fpr_design);
    json_key(j, "fpr_current");
    json_double(j, fpr);
    json_key(j, "n_estimate");
    json_double(j, n);
    const char *caveat = layout_caveat(h->layers[0].kind);
    if (caveat != NULL) {
        json_key(j, "caveat");
        json_string(j, caveat);
    }
}

void summary_end(struct json *j)
{
    json_close(j, '}');
}

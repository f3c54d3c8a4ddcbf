/* What every command says of a filter that it opens. */
#ifndef CMD_WARN_H
#define CMD_WARN_H

#include "store/filter.h"
#include "store/store.h"

/* Warns of a filter that was not left clean, or one of whose headers is damaged. */
void warn_unclean(const struct store *s);
void warn_unclean_file(const struct filter *f);

#endif

/* handler.h: the headers that every file with handlers needs. */
#ifndef PHOTOPOOL_API_HANDLER_H
#define PHOTOPOOL_API_HANDLER_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/body.h"
#include "api/endpoints.h"
#include "api/page.h"
#include "api/query.h"
#include "api/shown.h"
#include "base/check.h"
#include "base/text.h"

#endif

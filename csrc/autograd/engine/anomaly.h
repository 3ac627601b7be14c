/* autograd/engine/anomaly.h -- anomaly mode during backward: reporting failed nodes, searching results for NaN. */
#ifndef SHMT_AUTOGRAD_ENGINE_ANOMALY_H
#define SHMT_AUTOGRAD_ENGINE_ANOMALY_H

#include "autograd/node.h"

extern bool shmt__anomaly_check_nan; /* search results for NaN */
/* Installed by the Python layer: show the stack of a node that failed. */
extern void (*shmt__anomaly_report)(const char* node_name, const char* trace);
void shmt__anomaly_failed(shmt_node* n); /* its apply returned an error */
/* Errors: SHMT_E_RUNTIME when one of n's edges got a NaN. */
shmt_status shmt__anomaly_search_nan(shmt_node* n, shmt_tensor* const* out);

#endif

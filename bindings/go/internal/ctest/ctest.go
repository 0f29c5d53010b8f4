// SPDX-License-Identifier: Apache-2.0

// Package ctest is C that tests need: a test of Go cannot have any.
package ctest

/*
#cgo pkg-config: xfer
#include <sys/wait.h>
#include <unistd.h>
#include <xfer/cuda.h>
#include <xfer/rdma.h>
#include <xfer/text.h>

// The number of calls that a child of fork was not refused, of those below; or -1.
static int let_through(xfer_engine_t *engine, xfer_region_t *region, xfer_ep_t *ep, const void *memory) {
	pid_t child = fork();
	if (child == 0) {
		int passed = 0;
		xfer_ref_t ref;
		xfer_id_t id;
		xfer_event_t event;
		uint32_t count;
		passed += xfer_engine_id(engine, &id) != XFER_EFORKED;
		passed += xfer_engine_poll(engine, &event, sizeof event, 1, 0, &count) != XFER_EFORKED;
		passed += xfer_region_ref(region, &ref) != XFER_EFORKED;
		passed += xfer_ep_state(ep, &count) != XFER_EFORKED;
		passed += xfer_send(ep, memory, 1, 1, 1, NULL) != XFER_EFORKED;
		passed += xfer_ep_close(ep) != XFER_EFORKED;
		passed += xfer_region_close(region) != XFER_EFORKED;
		passed += xfer_engine_close(engine) != XFER_EFORKED;
		_exit(passed);
	}
	int status;
	if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
	return WEXITSTATUS(status);
}
*/
import "C"

import (
	"reflect"
	"unsafe"
)

// LetThrough is how many calls a child of fork was not refused, or -1. The handles are C's.
func LetThrough(engine, region, ep, memory unsafe.Pointer) int {
	return int(C.let_through((*C.xfer_engine_t)(engine), (*C.xfer_region_t)(region), (*C.xfer_ep_t)(ep), memory))
}

// Structs are those of the headers as cgo has them, by their names in C.
func Structs() map[string]reflect.Type {
	return map[string]reflect.Type{
		"xfer_error_t":           reflect.TypeOf(C.xfer_error_t{}),
		"xfer_id_t":              reflect.TypeOf(C.xfer_id_t{}),
		"xfer_event_t":           reflect.TypeOf(C.xfer_event_t{}),
		"xfer_engine_options_t":  reflect.TypeOf(C.xfer_engine_options_t{}),
		"xfer_rdma_options_t":    reflect.TypeOf(C.xfer_rdma_options_t{}),
		"xfer_op_options_t":      reflect.TypeOf(C.xfer_op_options_t{}),
		"xfer_listen_options_t":  reflect.TypeOf(C.xfer_listen_options_t{}),
		"xfer_ref_t":             reflect.TypeOf(C.xfer_ref_t{}),
		"xfer_region_options_t":  reflect.TypeOf(C.xfer_region_options_t{}),
		"xfer_region_info_t":     reflect.TypeOf(C.xfer_region_info_t{}),
		"xfer_ref_info_t":        reflect.TypeOf(C.xfer_ref_info_t{}),
		"xfer_grant_options_t":   reflect.TypeOf(C.xfer_grant_options_t{}),
		"xfer_ep_options_t":      reflect.TypeOf(C.xfer_ep_options_t{}),
		"xfer_peer_info_t":       reflect.TypeOf(C.xfer_peer_info_t{}),
		"xfer_span_t":            reflect.TypeOf(C.xfer_span_t{}),
		"xfer_strided_t":         reflect.TypeOf(C.xfer_strided_t{}),
		"xfer_page_base_t":       reflect.TypeOf(C.xfer_page_base_t{}),
		"xfer_pages_t":           reflect.TypeOf(C.xfer_pages_t{}),
		"xfer_batch_options_t":   reflect.TypeOf(C.xfer_batch_options_t{}),
		"xfer_submit_options_t":  reflect.TypeOf(C.xfer_submit_options_t{}),
		"xfer_batch_info_t":      reflect.TypeOf(C.xfer_batch_info_t{}),
		"xfer_message_info_t":    reflect.TypeOf(C.xfer_message_info_t{}),
		"xfer_counter_options_t": reflect.TypeOf(C.xfer_counter_options_t{}),
		"xfer_op_stats_t":        reflect.TypeOf(C.xfer_op_stats_t{}),
		"xfer_engine_stats_t":    reflect.TypeOf(C.xfer_engine_stats_t{}),
		"xfer_ep_stats_t":        reflect.TypeOf(C.xfer_ep_stats_t{}),
		"xfer_option_info_t":     reflect.TypeOf(C.xfer_option_info_t{}),
	}
}

// SPDX-License-Identifier: Apache-2.0

package xfer

import (
	"slices"
	"testing"
)

// contract are the scenarios of bindings/CONTRACT.md, by their names there.
var contract = []struct {
	name string
	run  func(*place)
}{
	{"version_matches", versionMatches},
	{"statuses_complete", statusesComplete},
	{"layouts_match", layoutsMatch},
	{"unknown_values", unknownValues},
	{"open_close_join", openCloseJoin},
	{"echo_put_get", echoPutGet},
	{"zero_length", zeroLength},
	{"lookup_waits", lookupWaits},
	{"lookup_missing", lookupMissing},
	{"ref_as_bytes", refAsBytes},
	{"batch_resubmitted", batchResubmitted},
	{"batch_entry_statuses", batchEntryStatuses},
	{"range_refused", rangeRefused},
	{"access_refused", accessRefused},
	{"buffer_kinds", bufferKinds},
	{"buffer_kept_alive", bufferKeptAlive},
	{"error_detail", errorDetail},
	{"no_listener", noListener},
	{"deadline_expires", deadlineExpires},
	{"wait_is_not_deadline", waitIsNotDeadline},
	{"cancel_keeps_buffer", cancelKeepsBuffer},
	{"submit_after_close", submitAfterClose},
	{"close_with_inflight", closeWithInflight},
	{"drop_without_close", dropWithoutClose},
	{"region_gone", regionGone},
	{"peer_killed", peerKilled},
	{"fork_refused", forkRefused},
	{"header_of_another_version", headerOfAnotherVersion},
	{"every_option_settable", everyOptionSettable},
	{"wrong_thread", wrongThread},
	{"thousand_concurrent", thousandConcurrent},
	{"exception_in_callback", exceptionInCallback},
	{"batch_ordered", batchOrdered},
	{"pages_strides", pagesStrides},
	{"quiet_flush", quietFlush},
	{"checksum_mismatch", checksumMismatch},
	{"atomic_words", atomicWords},
	{"message_tags", messageTags},
	{"message_truncated", messageTruncated},
	{"message_unknown_length", messageUnknownLength},
	{"message_canceled_late", messageCanceledLate},
	{"notify_bytes", notifyBytes},
	{"notify_on_batch", notifyOnBatch},
	{"notify_on_failure", notifyOnFailure},
	{"counter_deadline", counterDeadline},
	{"grant_lease", grantLease},
	{"grant_revoked", grantRevoked},
	{"drain", drainEnds},
	{"admit_and_refuse", admitAndRefuse},
	{"waits_canceled", waitsCanceled},
	{"cancel_by_mask", cancelByMask},
	{"peer_came_and_went", peerCameAndWent},
	{"same_host_path", sameHostPath},
}

// once are those that have no path.
var once = []string{"version_matches", "statuses_complete", "layouts_match", "every_option_settable",
	"header_of_another_version", "open_close_join", "error_detail", "checksum_mismatch"}

// alone are those that one engine can have with itself.
var alone = []string{"echo_put_get", "zero_length", "lookup_waits", "range_refused", "access_refused", "atomic_words",
	"batch_resubmitted", "pages_strides", "quiet_flush", "message_tags", "message_truncated", "message_unknown_length",
	"notify_bytes", "notify_on_batch", "thousand_concurrent"}

func TestContract(t *testing.T) {
	for _, scenario := range contract {
		t.Run(scenario.name, func(t *testing.T) {
			paths := []string{"tcp", "local"}
			if slices.Contains(once, scenario.name) {
				paths = paths[:1]
			} else if slices.Contains(alone, scenario.name) {
				paths = append(paths, "loopback")
			}
			for _, path := range paths {
				t.Run(path, func(t *testing.T) { scenario.run(&place{t, path}) })
			}
		})
	}
}

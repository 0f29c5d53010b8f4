// SPDX-License-Identifier: Apache-2.0
#include "core/base/cancel_index.h"

namespace xfer {

// Collected first: an end calls out, and ends or begins others. What ends by another's end leaves
// the list by itself.
void CancelIndex::cancel(const CancelScope &scope) {
    List<Cancelable, InCancelable> ending, others;
    const auto means = [&](const Cancelable &each) {
        return !scope.ep || each.begun_with() == scope.ep;
    };
    if (scope.one_word()) {
        while (Cancelable *found = by_user_.find(scope.user)) {
            remove(*found);
            (means(*found) ? ending : others).push_back(*found);
        }
    } else {
        for (Cancelable &each : all_) {
            if (!scope.has(each.user()) || !means(each)) continue;
            remove(each);
            ending.push_back(each);
        }
    }
    while (Cancelable *other = others.pop_front())
        add(*other);
    while (Cancelable *next = ending.pop_front())
        next->cancel();
}

}  // namespace xfer

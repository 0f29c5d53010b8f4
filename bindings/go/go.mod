// SPDX-License-Identifier: Apache-2.0

module xfer

go 1.22

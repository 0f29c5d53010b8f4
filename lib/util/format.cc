// SPDX-License-Identifier: Apache-2.0
// The library fmt, compiled once and hidden inside: as headers alone it would be compiled again
// with every file that logs.
#include <fmt/format-inl.h>

template auto fmt::detail::thousands_sep_impl<char>(locale_ref) -> thousands_sep_result<char>;
template auto fmt::detail::decimal_point_impl<char>(locale_ref) -> char;

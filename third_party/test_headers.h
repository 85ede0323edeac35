#ifndef STRATA_THIRD_PARTY_TEST_HEADERS_H_
#define STRATA_THIRD_PARTY_TEST_HEADERS_H_

// What most tests include, beside library_headers.h.

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "third_party/library_headers.h"

#endif  // STRATA_THIRD_PARTY_TEST_HEADERS_H_

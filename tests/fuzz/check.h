#ifndef STRATA_TESTS_FUZZ_CHECK_H_
#define STRATA_TESTS_FUZZ_CHECK_H_

#include <cstdio>
#include <cstdlib>

// What must hold for every input; else the fuzzer keeps the input as a crash.
#define FUZZ_CHECK(condition)                                                      \
  do {                                                                             \
    if (!(condition)) {                                                            \
      std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                \
    }                                                                              \
  } while (false)

#endif  // STRATA_TESTS_FUZZ_CHECK_H_

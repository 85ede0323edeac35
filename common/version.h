#ifndef STRATA_COMMON_VERSION_H_
#define STRATA_COMMON_VERSION_H_

// The version of the program and of the client library.
#define STRATA_VERSION "0.1.0"

#endif  // STRATA_COMMON_VERSION_H_

#ifndef STRATA_COMMON_S3_CURL_LIBRARY_H_
#define STRATA_COMMON_S3_CURL_LIBRARY_H_

#include <curl/curl.h>

#include <string>

#include "absl/status/statusor.h"

namespace strata::s3 {

inline constexpr char kCurlLibrary[] = "libcurl.so.4";

// The functions of libcurl that are called, from the library of this host: programs and wheels are
// not linked with it, so that hosts without S3 need none.
struct Curl {
  decltype(&::curl_easy_init) easy_init = nullptr;
  decltype(&::curl_easy_cleanup) easy_cleanup = nullptr;
  decltype(&::curl_easy_reset) easy_reset = nullptr;
  decltype(&::curl_easy_setopt) easy_setopt = nullptr;
  decltype(&::curl_easy_getinfo) easy_getinfo = nullptr;
  decltype(&::curl_easy_strerror) easy_strerror = nullptr;
  decltype(&::curl_multi_init) multi_init = nullptr;
  decltype(&::curl_multi_cleanup) multi_cleanup = nullptr;
  decltype(&::curl_multi_add_handle) multi_add_handle = nullptr;
  decltype(&::curl_multi_remove_handle) multi_remove_handle = nullptr;
  decltype(&::curl_multi_perform) multi_perform = nullptr;
  decltype(&::curl_multi_poll) multi_poll = nullptr;
  decltype(&::curl_multi_wakeup) multi_wakeup = nullptr;
  decltype(&::curl_multi_info_read) multi_info_read = nullptr;
  decltype(&::curl_slist_append) slist_append = nullptr;
  decltype(&::curl_slist_free_all) slist_free_all = nullptr;
};

// Loads it; it stays for the life of the process. Errors: FailedPrecondition saying what to
// install: it is not there, or older than 7.88, which signs requests to S3 wrongly.
absl::StatusOr<Curl> LoadCurl(const std::string& file = kCurlLibrary);

}  // namespace strata::s3

#endif  // STRATA_COMMON_S3_CURL_LIBRARY_H_

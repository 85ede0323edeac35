#include "common/s3/curl_library.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"

namespace strata::s3 {
namespace {

absl::Status Unusable(const std::string& why) {
  return absl::FailedPreconditionError(
      absl::StrCat("S3 needs ", kCurlLibrary, " (apt-get install libcurl4): ", why));
}

// Looks functions up, and remembers the first that is missing.
struct Lookup {
  template <typename Function>
  void Find(const char* name, Function* function) {
    *function = reinterpret_cast<Function>(dlsym(handle, name));
    if (*function == nullptr && missing == nullptr) missing = name;
  }

  void* const handle;
  const char* missing = nullptr;
};

}  // namespace

absl::StatusOr<Curl> LoadCurl(const std::string& file) {
  constexpr unsigned kVersionMin = 0x075800;  // 7.88.0
  void* const handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return Unusable(dlerror());
  Lookup lookup = {handle};
  Curl curl;
  decltype(&::curl_global_init) global_init = nullptr;
  decltype(&::curl_version_info) version_info = nullptr;
  lookup.Find("curl_global_init", &global_init);
  lookup.Find("curl_version_info", &version_info);
  lookup.Find("curl_easy_init", &curl.easy_init);
  lookup.Find("curl_easy_cleanup", &curl.easy_cleanup);
  lookup.Find("curl_easy_reset", &curl.easy_reset);
  lookup.Find("curl_easy_setopt", &curl.easy_setopt);
  lookup.Find("curl_easy_getinfo", &curl.easy_getinfo);
  lookup.Find("curl_easy_strerror", &curl.easy_strerror);
  lookup.Find("curl_multi_init", &curl.multi_init);
  lookup.Find("curl_multi_cleanup", &curl.multi_cleanup);
  lookup.Find("curl_multi_add_handle", &curl.multi_add_handle);
  lookup.Find("curl_multi_remove_handle", &curl.multi_remove_handle);
  lookup.Find("curl_multi_perform", &curl.multi_perform);
  lookup.Find("curl_multi_poll", &curl.multi_poll);
  lookup.Find("curl_multi_wakeup", &curl.multi_wakeup);
  lookup.Find("curl_multi_info_read", &curl.multi_info_read);
  lookup.Find("curl_slist_append", &curl.slist_append);
  lookup.Find("curl_slist_free_all", &curl.slist_free_all);
  if (lookup.missing != nullptr) return Unusable(absl::StrCat("no ", lookup.missing, " in it"));
  const curl_version_info_data* const version = version_info(CURLVERSION_NOW);
  if (version->version_num < kVersionMin) {
    return Unusable(absl::StrCat("at least 7.88, this one is ", version->version));
  }
  // Counted by the library, and safe on any thread since 7.84.
  if (global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) return Unusable("it does not start");
  return curl;
}

}  // namespace strata::s3

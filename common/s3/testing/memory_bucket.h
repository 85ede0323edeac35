#ifndef STRATA_COMMON_S3_TESTING_MEMORY_BUCKET_H_
#define STRATA_COMMON_S3_TESTING_MEMORY_BUCKET_H_

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/process/environment.h"
#include "common/s3/testing/http_server.h"

namespace strata::s3 {

// What takes the place of an answer.
struct Interference {
  CannedReply reply;
  bool is_carried_out = false;  // what was asked for is done all the same
};

// A bucket "bucket" in memory behind an HttpServer: what the contract of S3 says of single
// requests, uploads in parts and lists, as far as a store uses it. It takes only requests that are
// signed in form; whether a signature is right, tests against another implementation say.
class MemoryBucket {
 public:
  using Interfere = std::function<std::optional<Interference>(const ReceivedRequest&)>;

  static constexpr char kKeyId[] = "AKIDOFTHISTEST";
  static constexpr char kSecret[] = "secret/of+this/test";
  static constexpr char kToken[] = "token-of-this-test==";

  MemoryBucket();

  // Returns what leads programs to it, and nothing else.
  Environment Variables() const;
  // From now on `interfere` sees each request first; null: nobody does.
  void InterfereWith(Interfere interfere);
  // Lists have at most so many names a page.
  void SetPage(size_t page);

  std::map<std::string, std::string> objects() const;
  void SetObject(const std::string& key, const std::string& content);
  // Returns how many uploads are neither completed nor ended.
  size_t uploads() const;
  // Returns "METHOD TARGET" of all requests so far.
  std::vector<std::string> log() const;
  HttpServer& server() { return server_; }

 private:
  struct Upload {
    std::string key;
    std::map<int, std::string> parts;
  };

  CannedReply Handle(const ReceivedRequest& request);
  CannedReply CarryOut(const ReceivedRequest& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  CannedReply Put(const ReceivedRequest& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  CannedReply PutPart(const ReceivedRequest& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  CannedReply Begin(const ReceivedRequest& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  CannedReply Complete(const ReceivedRequest& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  CannedReply Get(const ReceivedRequest& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  CannedReply Delete(const ReceivedRequest& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  CannedReply List(const ReceivedRequest& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  CannedReply ListUploads(const ReceivedRequest& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  std::map<std::string, std::string> objects_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Upload> uploads_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> log_ ABSL_GUARDED_BY(mutex_);
  Interfere interfere_ ABSL_GUARDED_BY(mutex_);
  size_t page_ ABSL_GUARDED_BY(mutex_) = 1000;
  int next_upload_ ABSL_GUARDED_BY(mutex_) = 1;
  HttpServer server_;  // the last: its threads use all of it
};

// Returns an answer of S3 that says no.
CannedReply ErrorReply(int status, const std::string& code, const std::string& message = "no");

}  // namespace strata::s3

#endif  // STRATA_COMMON_S3_TESTING_MEMORY_BUCKET_H_

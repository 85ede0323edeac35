#ifndef STRATA_COMMON_TESTING_MEMORY_BUCKET_H_
#define STRATA_COMMON_TESTING_MEMORY_BUCKET_H_

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/os/environment.h"
#include "common/unique_fd.h"

namespace strata::s3 {

struct ReceivedRequest {
  std::string method;
  std::string target;                          // as sent
  std::string path;                            // decoded
  std::vector<std::string> query_names;        // in their order in the target
  std::map<std::string, std::string> query;    // decoded
  std::map<std::string, std::string> headers;  // by names in lower case
  std::string body;

  bool Has(const std::string& name) const { return query.contains(name); }
  std::string Header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
  }
};

// A fault of a connection, instead of an answer or in its middle.
enum class Fault {
  kNone,
  kReset,           // the connection breaks before the answer
  kStall,           // no answer comes
  kResetInBody,     // it breaks after half of the body
  kStallInBody,     // half of the body comes, then nothing more
  kCloseInBody,     // it closes after half of the body
  kChunked,         // no fault: the body comes in chunks, without a length
  kEndless,         // endless chunks of the body
  kEndlessHeaders,  // endless headers
  kDrip,            // a byte of the body comes every 50 ms
  kTenGigabytes,    // the body is the beginning of 10 GB, which never continue
};

struct CannedReply {
  int status = 200;
  std::vector<std::string> headers;
  std::string body;
  Fault fault = Fault::kNone;
};

// A small HTTP server on a port of loopback, with a thread per connection. Its destructor ends them
// all, even stalled ones.
class HttpServer {
 public:
  using Handler = std::function<CannedReply(const ReceivedRequest&)>;

  // `handler` is called on many threads.
  explicit HttpServer(Handler handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // The bodies of requests of this method are not read.
  void StallBodiesOf(const std::string& method);

  // Bodies are read with a pause before each 64 KiB.
  void ReadSlowly(absl::Duration pause);

  uint16_t port() const { return port_; }
  // Returns "http://127.0.0.1:PORT".
  std::string Url() const;
  // Requests whose headers have come.
  int requests() const;
  int connections() const;

 private:
  void Accept();
  void Serve(int fd);
  bool ReadRequest(int fd, std::string* buffer, ReceivedRequest* request);
  // Sends endlessly, until the peer has enough.
  void SendWithoutEnd(int fd, const CannedReply& reply);
  bool Answer(int fd, const CannedReply& reply);
  void WaitForTheEnd(int fd);

  const Handler handler_;
  UniqueFd listener_;
  uint16_t port_ = 0;
  mutable absl::Mutex mutex_;
  std::list<int> open_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  int requests_ ABSL_GUARDED_BY(mutex_) = 0;
  int connections_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string stalled_method_ ABSL_GUARDED_BY(mutex_);
  absl::Duration pause_ ABSL_GUARDED_BY(mutex_);
  std::thread acceptor_;
};

// Replaces an answer.
struct Interference {
  CannedReply reply;
  bool is_carried_out = false;  // the request is carried out all the same
};

// A bucket "bucket" in memory behind an HttpServer: the S3 contract for single requests, multipart
// uploads and lists, as far as a store uses it. It accepts only requests with a well-formed
// signature; tests against another implementation check signatures.
class MemoryBucket {
 public:
  using Interfere = std::function<std::optional<Interference>(const ReceivedRequest&)>;

  static constexpr char kKeyId[] = "AKIDOFTHISTEST";
  static constexpr char kSecret[] = "secret/of+this/test";
  static constexpr char kToken[] = "token-of-this-test==";

  MemoryBucket();

  // Returns the variables that lead programs to it.
  Environment Variables() const;
  // From now on `interfere` sees each request first; null: nobody does.
  void InterfereWith(Interfere interfere);
  // Lists have at most `page` names per page.
  void SetPage(size_t page);

  std::map<std::string, std::string> objects() const;
  void SetObject(const std::string& key, const std::string& content);
  // Returns how many uploads are neither completed nor aborted.
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
  HttpServer server_;  // last member: its threads use the others
};

// Returns an S3 error answer.
CannedReply ErrorReply(int status, const std::string& code, const std::string& message = "no");

}  // namespace strata::s3

#endif  // STRATA_COMMON_TESTING_MEMORY_BUCKET_H_

#ifndef STRATA_COMMON_S3_TESTING_HTTP_SERVER_H_
#define STRATA_COMMON_S3_TESTING_HTTP_SERVER_H_

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/unique_fd.h"

namespace strata::s3 {

struct ReceivedRequest {
  std::string method;
  std::string target;                          // as it was sent
  std::string path;                            // decoded
  std::vector<std::string> query_names;        // in the order of the target
  std::map<std::string, std::string> query;    // decoded
  std::map<std::string, std::string> headers;  // by names in lower case
  std::string body;

  bool Has(const std::string& name) const { return query.contains(name); }
  std::string Header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
  }
};

// What is done to a connection in place of an answer, or in its middle.
enum class Fault {
  kNone,
  kReset,        // the connection breaks before the answer
  kStall,        // nothing is answered
  kResetInBody,  // it breaks after half of the body
  kStallInBody,  // half of the body comes, and nothing more
  kCloseInBody,  // it ends after half of the body
  kChunked,      // no fault: the body comes in chunks, without its length
};

struct CannedReply {
  int status = 200;
  std::vector<std::string> headers;
  std::string body;
  Fault fault = Fault::kNone;
};

// A small HTTP server on a port of loopback, a thread for each connection. Its destructor ends them
// all, also those that stand still.
class HttpServer {
 public:
  using Handler = std::function<CannedReply(const ReceivedRequest&)>;

  // `handler` is called by many threads.
  explicit HttpServer(Handler handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Requests of a method for which this is set are not read beyond their headers.
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

}  // namespace strata::s3

#endif  // STRATA_COMMON_S3_TESTING_HTTP_SERVER_H_

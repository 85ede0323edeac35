#ifndef STRATA_CLI_WEB_HTTP_MESSAGE_H_
#define STRATA_CLI_WEB_HTTP_MESSAGE_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace strata::cli {

// A request as a handler sees it; missing headers are empty.
struct HttpRequest {
  std::string method;  // "GET", "HEAD", "POST", ...
  std::string path;    // "/api/jobs/3"
  std::string query;   // "job=3&job=5", without the "?"
  std::string host;
  std::string origin;
  std::string cookie;
  std::string authorization;
  std::string if_none_match;
  std::string body;
  bool accepts_gzip = false;
};

// Shared texts are sent to many readers without a copy for each.
using SharedText = std::shared_ptr<const std::string>;

// Server-sent events of one reader. Returns what to send now: all news for it, in the newest state;
// null: nothing. A slow reader is asked less often, so that nothing piles up.
using EventSource = std::function<SharedText()>;

struct HttpAnswer {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  SharedText body;
  std::vector<std::pair<std::string, std::string>> headers = {};
  // Instead of a body: a stream of events until the reader leaves.
  EventSource events = nullptr;
};

// One line for people.
HttpAnswer TextAnswer(int status, const std::string& line);

// Called only on the server's one thread, so never concurrently.
using HttpHandler = std::function<HttpAnswer(const HttpRequest&)>;

}  // namespace strata::cli

#endif  // STRATA_CLI_WEB_HTTP_MESSAGE_H_

#include "cli/options/line_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <utility>

namespace strata::cli {

LineReader::LineReader(UniqueFd fd) : fd_(std::move(fd)) {
  fcntl(fd_.get(), F_SETFL, fcntl(fd_.get(), F_GETFL) | O_NONBLOCK);
}

std::optional<std::vector<std::string>> LineReader::Read() {
  char buffer[4096];
  const ssize_t got = read(fd_.get(), buffer, sizeof(buffer));
  std::vector<std::string> lines;
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return lines;
  if (got <= 0) {
    if (rest_.empty()) return std::nullopt;
    lines.push_back(std::move(rest_));
    rest_.clear();
    return lines;
  }
  rest_.append(buffer, static_cast<size_t>(got));
  size_t begin = 0;
  for (size_t end = rest_.find('\n'); end != std::string::npos; end = rest_.find('\n', begin)) {
    lines.push_back(rest_.substr(begin, end - begin));
    begin = end + 1;
  }
  rest_.erase(0, begin);
  if (rest_.size() > kLineBytesMax) {
    lines.push_back(std::move(rest_));
    rest_.clear();
  }
  return lines;
}

}  // namespace strata::cli

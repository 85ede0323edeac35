#include "cli/render/log_tail.h"

#include <fstream>

#include "absl/strings/str_cat.h"

namespace strata::cli {

std::string LogTail::Read(bool all) {
  std::ifstream in(path_, std::ios::binary);
  if (!in) return "";
  in.seekg(static_cast<std::streamoff>(offset_));
  std::string text(kBytesMax, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(in.gcount()));
  // A line of more than is read at a time is cut.
  const bool is_full = text.size() == kBytesMax;
  const size_t end = text.rfind('\n');
  if (end != std::string::npos) {
    text.resize(all && !is_full ? text.size() : end + 1);
  } else if (!all && !is_full) {
    return "";
  }
  offset_ += text.size();
  if (!text.empty() && text.back() != '\n') text.push_back('\n');
  std::string lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t stop = text.find('\n', begin) + 1;
    absl::StrAppend(&lines, prefix_, text.substr(begin, stop - begin));
    begin = stop;
  }
  return lines;
}

}  // namespace strata::cli

#ifndef STRATA_COMMON_TEXT_ERROR_H_
#define STRATA_COMMON_TEXT_ERROR_H_

#include <functional>
#include <string>
#include <utility>

#include "google/protobuf/io/tokenizer.h"

namespace strata {

// Keeps the first error of a parser of protobuf text as one line with its place, counted from 1
// (the parser counts from 0): "SOURCE:LINE:COLUMN: FIELD: why".
class FirstTextError : public google::protobuf::io::ErrorCollector {
 public:
  // `complete`: adds to a message what the parser does not know. `text` outlives it.
  FirstTextError(const std::string& text, std::string source,
                 std::function<std::string(const std::string&)> complete)
      : text_(text), source_(std::move(source)), complete_(std::move(complete)) {}

  void AddError(int line, int column, const std::string& message) override;
  // Empty: there was none.
  const std::string& line() const { return line_; }

 private:
  const std::string& text_;
  const std::string source_;
  const std::function<std::string(const std::string&)> complete_;
  std::string line_;
};

}  // namespace strata

#endif  // STRATA_COMMON_TEXT_ERROR_H_

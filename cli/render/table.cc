#include "cli/render/table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "cli/options/terminal.h"

namespace strata::cli {

std::string Table(const std::vector<Row>& given) {
  // A cell has one line, whatever others have put into it.
  std::vector<Row> rows = given;
  for (Row& row : rows) {
    for (std::string& cell : row) cell = Escaped(cell);
  }
  std::vector<size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      absl::StrAppend(&line, row[i], std::string(widths[i] - row[i].size() + 2, ' '));
    }
    line.erase(line.find_last_not_of(' ') + 1);
    absl::StrAppend(&text, line, "\n");
  }
  return text;
}

}  // namespace strata::cli

#ifndef STRATA_CLI_RENDER_TABLE_H_
#define STRATA_CLI_RENDER_TABLE_H_

#include <string>
#include <vector>

namespace strata::cli {

using Row = std::vector<std::string>;

// Columns as wide as their widest cell, two spaces apart; the last one is not padded. Ends in a
// newline, unless there are no rows.
std::string Table(const std::vector<Row>& rows);

}  // namespace strata::cli

#endif  // STRATA_CLI_RENDER_TABLE_H_

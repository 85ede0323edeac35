#ifndef STRATA_CLI_RENDER_TABLE_H_
#define STRATA_CLI_RENDER_TABLE_H_

#include <string>
#include <vector>

#include "google/protobuf/message.h"

namespace strata::cli {

using Row = std::vector<std::string>;

// Columns as wide as their widest cell, two spaces apart; the last one is not padded. Ends in a
// newline, unless there are no rows.
std::string Table(const std::vector<Row>& rows);

// Escapes everything that a terminal interprets in every string of the message, at any depth: see
// Escaped. Each string is one line then.
void EscapeStrings(google::protobuf::Message* message);

// Returns the message with its strings escaped. All code that renders a message from a cluster
// begins with this.
template <typename Message>
Message Printable(Message message) {
  EscapeStrings(&message);
  return message;
}

}  // namespace strata::cli

#endif  // STRATA_CLI_RENDER_TABLE_H_

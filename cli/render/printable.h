#ifndef STRATA_CLI_RENDER_PRINTABLE_H_
#define STRATA_CLI_RENDER_PRINTABLE_H_

#include "google/protobuf/message.h"

namespace strata::cli {

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

#endif  // STRATA_CLI_RENDER_PRINTABLE_H_

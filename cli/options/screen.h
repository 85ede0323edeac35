#ifndef STRATA_CLI_OPTIONS_SCREEN_H_
#define STRATA_CLI_OPTIONS_SCREEN_H_

#include <termios.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/event_fd.h"

namespace strata::cli {

// Returns whether colours are wanted: NO_COLOR is not set and the terminal is not a dumb one.
bool UsesColours();

// A full-screen terminal that is redrawn repeatedly; its previous content is restored at the end.
// One at a time.
//
// Threads: one, except for Wake.
class Screen {
 public:
  struct Size {
    int columns = 80;
    int rows = 24;
  };
  // Returns the size of the terminal behind the file; nullopt: it is not a terminal.
  static std::optional<Size> SizeOf(std::FILE* file);

  // `in` is read key by key if it is a terminal. Errors: ResourceExhausted (no descriptors left).
  static absl::StatusOr<std::unique_ptr<Screen>> Open(std::FILE* in, std::FILE* out);
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  Size size() const;
  // `lines`: with their ends; those below the terminal's last row are omitted.
  void Draw(const std::string& lines);
  // Returns the key pressed until then; 0: none, or Wake, or the size has changed.
  char AwaitKey(absl::Time until);
  // Ends AwaitKey, from any thread.
  void Wake() { wake_.Notify(); }

 private:
  Screen(std::FILE* in, std::FILE* out, EventFd wake);

  std::FILE* const in_;
  std::FILE* const out_;
  bool reads_keys_ = false;
  termios before_;
  EventFd wake_;
};

}  // namespace strata::cli

#endif  // STRATA_CLI_OPTIONS_SCREEN_H_

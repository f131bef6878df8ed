// The table of `luna top`, and of `luna sessions list`: pure functions from messages to lines.
#ifndef LUNA_CLIENT_CLI_TOP_FRAME_H_
#define LUNA_CLIENT_CLI_TOP_FRAME_H_

#include <string>
#include <vector>

#include "client/term/screen.h"
#include "client/term/style.h"
#include "luna/v1/monitor.pb.h"
#include "luna/v1/session.pb.h"

namespace luna::cli {

// Pool, what sharing saves, load, then one row a session, those at work first, at most size.rows
// lines; the last one counts the sessions that did not fit. Every line fits size.columns: where a
// terminal is narrow, the columns that matter least are left out.
std::vector<std::string> RenderTop(const v1::MemorySnapshot& snapshot, term::Size size,
                                   const term::Style& style);

std::vector<std::string> RenderSessions(const std::vector<v1::Session>& sessions, int columns,
                                        const term::Style& style);

}  // namespace luna::cli

#endif  // LUNA_CLIENT_CLI_TOP_FRAME_H_

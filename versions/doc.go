// Package versions is time beside the tree: it names points of a workspace's history, reads files and directories as
// they were there, and tells what happened in between.
//
// What it keeps true:
//   - A revision is a stable name. WS@1234, an age and a time are resolved through the workspace's reflog first, so
//     they keep their meaning after the workspace was pointed elsewhere.
//   - Nothing here writes. Everything is read through a store.View, which holds no transaction, so a long log or a
//     slow reader never keeps the database from being checkpointed.
//   - Nothing is guessed: an unknown name is an error that lists what comes close, an unknown command stays unknown.
//
// Grammar of the names (see Parse, ParseSpec):
//
//	revision  WS | WS@POINT
//	point     1234            the state right after change 1234
//	          5m 1h30m 2d 1w  the state that long ago
//	          2026-11-29T10:00:00Z, 2026-11-29, 2026-11-29T10:00
//	          cN | cN+        just before, just after command N
//	          TAG             begins with a letter
//	spec      PATH | PATH@POINT | WS:PATH | WS@POINT:PATH
package versions

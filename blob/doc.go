// Package blob keeps the bytes of files: every blob once, whatever file, version or workspace it is in.
//
// # What is what
//
// A blob is up to 256 KiB of bytes, named by their BLAKE3-256, the Ref. Content of at most MaxBlob bytes is one blob.
// Larger content is a tree of blobs: leaves are chunks of the bytes, nodes list their children, and the Ref of the
// content is that of the root (chunk.go and node.go have the format). Zeros in whole blocks of 64 KiB are holes, which
// are stored nowhere, however long. Blobs lie in packs, files that are only appended to (record.go), or inline in the
// Location that the index has of them.
//
// # The life of a blob
//
// Bytes come in through StageSmall, Edit, PutPacked or PutReader. They are pending then: ReadAt finds them, though the
// index does not. What was staged rides in an Op. The applier hands the Staged of a group to Settle, commits the
// locations that it returns, and passes the Staged to Applied. A Staged that never becomes an Op is passed to Applied as
// well. Every Staged is counted, so two with the same Ref need two calls.
//
//	StageSmall, Edit ... -> Op -> Settle -> Sync -> commit of the rows -> Applied
//
// StagePatch puts off what Edit does until Settle: the content has a provisional Ref until then, which Settled and
// Unpatched translate, and which is forgotten with the last Staged that has it.
//
// # What holds at all times
//
//   - Equal bytes have equal Refs, by whatever calls they came to be. The reverse holds for a Ref with its size: a
//     Content.
//   - What a pack has, it keeps: bytes once written are never written again. A write that fails leaves all earlier
//     blobs readable.
//   - ReadAt returns the bytes of the Ref or an error; one damaged blob makes unreadable what names it and nothing else.
//   - After Sync returned, every blob staged before is on the disk. After Sync failed, nothing can be written any more.
//   - No goroutine outlives the call that started it, but for one that decodes ahead (runs.go): Close waits for that.
//
// # Traps
//
//   - A Ref alone does not say whether it is a blob or a tree: the size does.
//   - Staging does not repeat blobs that the base of an Edit has: the base's Op comes first, or with it.
//   - Bytes given to StageSmall, and those in a Staged, belong to the store: it keeps them with all their capacity.
//   - The source of an Edit must not change while it runs, and is read by several goroutines.
//   - Index must be able to answer while its own writer is in Settle: it is asked from there.
//
// Locks: none is held while calling an Index, a source or a callback, or while reading or writing a pack. They are
// leaves of the order, except packs.syncMu before packs.mu and pending.mu before a cache shard's; and patch.mu, which comes
// before all of them and is held while a patch is settled: whoever wants the same does not do it again.
package blob

// Package hosttree is the host's side of a workspace that came from a directory: what the directory looked like when the
// two were last equal ([Index]), what has changed there since ([Index.Changes]), and how it is changed without ever leaving
// it ([Tree]).
//
// An index is a cache of stat(2), as git's is, with what the entries held: a file whose size, times, inode and mode are
// those of the index is not read. An entry that was changed in the very moment of the scan is not trusted (its times are
// left out). It is also the base of a three-way comparison, entry by entry: taking in one path, or applying one, moves
// that path's base alone.
package hosttree

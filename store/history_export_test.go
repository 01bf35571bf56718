package store

// HistoryQueries are the queries of history.go.
func HistoryQueries() map[string]string {
	return map[string]string{"names of live": sqlNamesOfLive, "names of past": sqlNamesOfPast, "seq at": sqlSeqAt}
}

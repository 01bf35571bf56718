package store

// HistoryQueries are the queries of history.go.
func HistoryQueries() map[string]string {
	return map[string]string{"names of live": withKeys(sqlInoLive, 4, 4), "names of past": withKeys(sqlInoPast, 4, 4), "seq at": sqlSeqAt}
}

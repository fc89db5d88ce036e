package conn

const crowdVariable = "CAIRN_CONN_CROWD"

func crowd(string) {}

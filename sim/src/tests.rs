mod adaptive;
mod plans;
mod roaming;
mod scenarios;
mod schedules;

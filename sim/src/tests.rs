mod adaptive;
mod plans;
mod scenarios;
mod schedules;

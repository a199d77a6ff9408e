mod scenarios;
mod schedules;
